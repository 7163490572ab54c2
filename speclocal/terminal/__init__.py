"""What a person sees: the command line and all output."""
