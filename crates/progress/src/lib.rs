//! The progress engine: who runs the work, when; rings, request slots, budgets, trace.
