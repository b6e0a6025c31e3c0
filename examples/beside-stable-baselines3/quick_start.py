import gymnasium

import actorlearn

run = actorlearn.train("CartPole-v1", "ppo", total_steps=50_000, seed=1)
print("mean score", run.evaluate(episodes=10)["mean"])

env = gymnasium.make("CartPole-v1")
policy, score, over = run.policy(), 0.0, False
observation, _ = env.reset(seed=0)
while not over:
    action = policy.act(observation, greedy=True)
    observation, reward, terminated, truncated, _ = env.step(action)
    score, over = score + reward, terminated or truncated
print("one more game", score)
