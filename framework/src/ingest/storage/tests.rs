//! What is read of the objects of storage.
//!
//! Knows: the situations in which upstream reads a field otherwise than one would think.
