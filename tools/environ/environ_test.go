package environ

import "testing"

func TestIsProviderKey(t *testing.T) {
	for name, want := range map[string]bool{
		"ANTHROPIC_API_KEY": true, "JP_STORE": true, "OTEL_EXPORTER_OTLP_HEADERS": true, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": true,
		"OTEL_EXPORTER_OTLP_ENDPOINT": false, "OTEL_SERVICE_NAME": false, "HOME": false, "HEADERS": false, "": false,
	} {
		if got := IsProviderKey(name); got != want {
			t.Errorf("IsProviderKey(%q) = %v, want %v", name, got, want)
		}
	}
}
