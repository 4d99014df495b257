"""The operator: an OpenAI-compatible API that gives a signed receipt with every answer (design sections 3 to 5).

Reading order: `openai` (wire format), `request_builder` (the Request), `pipeline` (run, seal, sign, store),
`request_queue` (queue and retries), `readiness`, `anchoring_order` and `batcher` (anchoring), `disputes`, `api` (HTTP),
`settings`, `wiring`.
"""
