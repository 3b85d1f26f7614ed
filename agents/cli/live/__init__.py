"""What commands share that show calls as they go on: the view, and what feeds it."""
