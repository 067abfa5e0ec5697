//! Preemption, from the law's side: cases with names, and trials against brute force.
