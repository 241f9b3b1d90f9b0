"""HUD: sections with live values in prompts. Imported only where a prompt names the HUD."""
