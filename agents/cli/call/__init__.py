"""`vivavoce call`: a scripted caller for any LiveKit agent."""
