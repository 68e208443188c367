//! The tocsin command: info, run, benches and plots.
