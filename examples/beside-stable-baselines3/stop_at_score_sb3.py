import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.monitor import Monitor

enough = StopTrainingOnRewardThreshold(reward_threshold=200)
evaluation = EvalCallback(Monitor(gymnasium.make("CartPole-v1")), callback_on_new_best=enough, eval_freq=5_000)
model = PPO("MlpPolicy", "CartPole-v1", seed=1)
model.learn(total_timesteps=500_000, callback=evaluation)
print("stopped after", model.num_timesteps, "steps")
