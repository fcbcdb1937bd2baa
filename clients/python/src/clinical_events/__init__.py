"""Captures what a clinical AI does, writes it to disk before it is sent, and loses nothing."""
