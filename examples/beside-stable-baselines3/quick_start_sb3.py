import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

env = gymnasium.make("CartPole-v1")
model = PPO("MlpPolicy", env, seed=1)
model.learn(total_timesteps=50_000)
print("mean score", evaluate_policy(model, model.get_env(), n_eval_episodes=10)[0])

score, over = 0.0, False
observation, _ = env.reset(seed=0)
while not over:
    action, _ = model.predict(observation, deterministic=True)
    observation, reward, terminated, truncated, _ = env.step(action)
    score, over = score + reward, terminated or truncated
print("one more game", score)
