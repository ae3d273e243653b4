package profiles

func checkModelID(string) error { return nil }
func sortedKeys[V any](m map[string]V) []string { return nil }
func environment(environ []string) map[string]string { return nil }
