"""What a prompt is made of and how it is put together. Pure: values in, values out."""
