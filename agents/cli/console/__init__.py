"""What `vivavoce console` runs: `job` stands for a room, `keys` reads the keyboard, `run` puts it together."""
