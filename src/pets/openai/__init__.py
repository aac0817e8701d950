"""OpenAI's wire format, once for the client, the gateway and the mock server."""
