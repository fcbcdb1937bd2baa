"""Captures what libraries do; each module is for one library, which the application brings along."""
