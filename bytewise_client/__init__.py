"""What an application embeds: checks of an answer and of public records, which need no model and trust no service."""
