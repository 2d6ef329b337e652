"""Who may do what: ACLs, the authorizer that judges by them, and what each API asks of it."""
