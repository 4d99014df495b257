"""Jobs for the enclave: tickets, the worker thread, the client of the job socket."""
