"""The vehicle: a multi-body car driven through towns, a trusted unicycle, and cars that must stay parked."""
