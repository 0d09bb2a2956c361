"""From what selectors answer to what templates draw: words, tones and order, and no rules."""
