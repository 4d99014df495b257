"""What an operator runs: an OpenAI-compatible API whose every answer has a signed receipt (design sections 3 to 5).

Reading order: `json_numbers` and `openai` (wire format), `request_builder` (the Request), `pipeline` (run, seal, sign, store),
`answer` (what the client gets), `request_queue` (queue and retries), `readiness`, `batcher` (anchoring), `api` (HTTP),
`settings`, `wiring`.
"""
