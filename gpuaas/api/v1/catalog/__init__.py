"""What is offered, and the sites that offer it."""
