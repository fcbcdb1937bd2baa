"""Integrations, one module for each library. The application installs the library."""
