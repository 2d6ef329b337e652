module mainstem/registryclient

go 1.24.0

require github.com/twmb/franz-go/pkg/sr v1.7.0
