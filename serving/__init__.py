"""What an operator runs: an OpenAI-compatible API whose every answer has a signed receipt (design sections 3 to 5).

Reading order: `numbers` and `openai` (the wire format), `recipe` (Request), `pipeline` (run, seal, sign, store), `answer` (what
the client gets), `queue` (queue and retries), `readiness`, `batcher` (anchor on-chain), `api` (HTTP), `settings`, `wiring`.
"""
