"""A Django application as users write them."""
