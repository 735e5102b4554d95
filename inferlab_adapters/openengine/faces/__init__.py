"""What is different between the revisions of OpenEngine, one module each."""
