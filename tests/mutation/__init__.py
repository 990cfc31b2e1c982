"""Checks of the tests themselves: code is changed line by line, and a test has to fail."""
