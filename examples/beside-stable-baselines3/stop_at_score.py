import actorlearn


def unsolved(run, evaluation):
    print(f"{evaluation['mean']:.0f} after {evaluation['env_steps']:,} steps")
    return evaluation["mean"] < 200  # False stops the run


keys = {"evaluator.count": 1, "evaluator.every_steps": 5_000}
run = actorlearn.train("CartPole-v1", "ppo", total_steps=500_000, seed=1, on_evaluation=unsolved, **keys)
print(run.state, "after", run.steps, "steps")
