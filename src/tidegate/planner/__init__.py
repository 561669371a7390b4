"""Plans made before traffic comes: the settings that suit it."""
