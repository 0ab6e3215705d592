//! Files below `/workspace`: safe paths, the files API, quotas, watching (S4).
