"""Learning curves that other programs have logged, as rows like ours."""
