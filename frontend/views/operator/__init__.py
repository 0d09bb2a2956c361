"""What operators see and change, one module per area; auditors see the same without the buttons."""
