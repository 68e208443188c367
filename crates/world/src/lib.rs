//! Ranks, communicators, raw requests, bootstrap, launcher: one surface for every face of tocsin.
