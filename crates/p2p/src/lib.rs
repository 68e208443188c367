//! Point to point: tag matching, requests, eager and rendezvous.
