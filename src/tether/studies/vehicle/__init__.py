"""The vehicle: a multi-body car driven through towns, and a trusted unicycle; parked cars must stay parked."""
