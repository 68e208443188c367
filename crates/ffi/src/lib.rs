//! C interface of tocsin: tocsin.h, static and shared library.
