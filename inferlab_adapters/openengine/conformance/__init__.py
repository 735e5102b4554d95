"""Does a server keep to OpenEngine? Asked over gRPC alone, of any server, rule by rule."""
