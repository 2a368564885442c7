package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// seaweedRights let the testbed write an object without a signature, to see that it is ready.
const seaweedRights = `{"identities": [
	{"name": "testbed", "credentials": [{"accessKey": "` + S3AccessKey + `", "secretKey": "` + S3SecretKey + `"}], "actions": ["Admin", "Read", "Write", "List"]},
	{"name": "anonymous", "actions": ["Write:` + S3Bucket + `"]}
]}`

func startSeaweedFS(program string, o S3Options) *S3Node {
	out, err := exec.Command(program, "version").Output()
	words := strings.Fields(string(out)) // version 30GB 4.53 …
	if err != nil || len(words) < 3 {
		check(fmt.Errorf("%s version: %v: %q", program, err, out))
	}
	d := newDaemon(S3, "SeaweedFS "+words[2], o.TLS)
	data, rights := filepath.Join(d.dir, "data"), filepath.Join(d.dir, "rights.json")
	check(os.Mkdir(data, 0o755))
	check(os.WriteFile(rights, []byte(seaweedRights), 0o600))

	return &S3Node{d.onPort(func(port int) []string {
		command := []string{program, "-logtostderr", "server", "-ip=127.0.0.1", "-dir=" + data, "-filer", "-s3",
			"-s3.config=" + rights, "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"}
		if o.TLS {
			command = append(command, "-s3.cert.file="+d.ca.file("server-cert.pem"), "-s3.key.file="+d.ca.file("server-key.pem"))
		}
		filer := freePort()
		ports := map[string]int{"s3.port": port, "filer.port": filer}
		for _, other := range []string{"s3.port.grpc", "filer.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc"} {
			ports[other] = freePort()
		}
		for name, port := range ports {
			command = append(command, "-"+name+"="+strconv.Itoa(port))
		}
		d.ready = func(ctx context.Context) error {
			bucket, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+loopback(filer)+"/buckets/"+S3Bucket+"/", nil)
			if err != nil {
				return err
			}
			made, err := http.DefaultClient.Do(bucket) // which changes nothing if it is there
			if err != nil {
				return err
			}
			made.Body.Close()
			_, err = d.ask(ctx, http.MethodPut, d.URL()+"/"+S3Bucket+"/ready", nil) // is refused for seconds
			return err
		}
		return command
	})}
}
