"""The two suites, `make test` and `make test-all`: which tests run side by side, and where their time goes."""
