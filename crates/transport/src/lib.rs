//! The transport trait: packets, classes, capabilities, peer states.
