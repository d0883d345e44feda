"""Base mechanisms: frozen, validated descriptions with exact or bounded group profiles."""
