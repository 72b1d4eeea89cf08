"""The provider SDK: make an app visible."""
