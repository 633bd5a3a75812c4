//! Loom models: every interleaving of the wake-up protocols, and mutants that
//! must fail.
