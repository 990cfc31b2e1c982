"""A training on several ranks whose curve depends neither on their number nor on kills."""
