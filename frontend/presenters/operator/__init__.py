"""From what selectors answer to what the operators' pages draw."""
