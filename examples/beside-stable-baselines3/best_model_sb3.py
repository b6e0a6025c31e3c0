import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

env = Monitor(gymnasium.make("CartPole-v1"))
evaluation = EvalCallback(env, best_model_save_path="best", eval_freq=5_000, verbose=0)
PPO("MlpPolicy", "CartPole-v1", seed=1).learn(total_timesteps=50_000, callback=evaluation)
best = PPO.load("best/best_model")
mean, _ = evaluate_policy(best, env, n_eval_episodes=10)
print(f"the best, of step {best.num_timesteps:,}, scores {mean:.0f}")
