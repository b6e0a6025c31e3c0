import actorlearn

keys = {"evaluator.count": 1, "evaluator.every_steps": 5_000}
run = actorlearn.train("CartPole-v1", "ppo", total_steps=50_000, seed=1, **keys)
best = run.evaluate(episodes=10, at="best")
print(f"the best, of step {best['env_steps']:,}, scores {best['mean']:.0f}")
