"""Jobs for the enclave: tickets, the pool of threads that run jobs, and the clients of job sockets."""
