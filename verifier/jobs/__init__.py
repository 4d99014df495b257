"""Jobs for the enclave: tickets, the worker thread, the job socket."""
