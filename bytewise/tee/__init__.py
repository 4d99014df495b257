"""Evidence of enclaves. Read `appraisal` (judges evidence), `measurement` (what a program is), `policy` (files of the appraisal
policy), `quoters` (makes evidence on this machine; no simulator in production), `channel` (attested channels), `confinement`."""
