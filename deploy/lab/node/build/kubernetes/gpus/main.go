// Command gpus is a device plugin of GPUs that do not exist: the kubelet counts them, gives each to one container at a
// time, and tells the container which it got in NVIDIA_VISIBLE_DEVICES, as NVIDIA's own plugin does.
//
// GPUS is how many there are. A file named like a device in the folder SICK makes that device unhealthy.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "lab-gpus.sock"
	look     = 500 * time.Millisecond
)

var errForgotten = errors.New("the kubelet began anew and has forgotten us")

type gpus struct {
	kubelet.UnimplementedDevicePluginServer
	ids  []string
	sick string
}

func main() {
	count, err := strconv.Atoi(os.Getenv("GPUS"))
	if err != nil {
		log.Fatalf("GPUS is to be a number: %v", err)
	}
	plugin := &gpus{sick: os.Getenv("SICK")}
	for number := range count {
		plugin.ids = append(plugin.ids, fmt.Sprintf("GPU-1ab00000-0000-4000-8000-%012d", number))
	}
	for {
		log.Print(plugin.offer())
		time.Sleep(look)
	}
}

// offer returns when the kubelet is another one than it registered with; then it has to be done again.
func (g *gpus) offer() error {
	own := filepath.Join(kubelet.DevicePluginPath, socket)
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	listener, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	kubelet.RegisterDevicePluginServer(server, g)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(); err != nil {
		return err
	}
	log.Printf("%d of %s are registered", len(g.ids), resource)
	for { // a kubelet that starts clears the folder
		if _, err := os.Stat(own); err != nil {
			return errForgotten
		}
		time.Sleep(look)
	}
}

func register() error {
	connection, err := grpc.NewClient("unix:"+kubelet.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	limit, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	_, err = kubelet.NewRegistrationClient(connection).Register(limit, &kubelet.RegisterRequest{
		Version:      kubelet.Version,
		Endpoint:     socket,
		ResourceName: resource,
	})
	return err
}

func (g *gpus) GetDevicePluginOptions(context.Context, *kubelet.Empty) (*kubelet.DevicePluginOptions, error) {
	return &kubelet.DevicePluginOptions{}, nil
}

// ListAndWatch tells the devices at once, and again whenever one of them fell sick or got well.
func (g *gpus) ListAndWatch(_ *kubelet.Empty, stream grpc.ServerStreamingServer[kubelet.ListAndWatchResponse]) error {
	told := ""
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for {
		devices, health := g.devices()
		if health != told {
			if err := stream.Send(&kubelet.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			told = health
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticks.C:
		}
	}
}

// devices also returns the health of all as one text.
func (g *gpus) devices() ([]*kubelet.Device, string) {
	var devices []*kubelet.Device
	var health []string
	for _, id := range g.ids {
		state := kubelet.Healthy
		if _, err := os.Stat(filepath.Join(g.sick, id)); err == nil {
			state = kubelet.Unhealthy
		}
		devices = append(devices, &kubelet.Device{ID: id, Health: state})
		health = append(health, state)
	}
	return devices, strings.Join(health, " ")
}

func (g *gpus) Allocate(_ context.Context, asked *kubelet.AllocateRequest) (*kubelet.AllocateResponse, error) {
	answer := &kubelet.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		given := strings.Join(container.DevicesIds, ",")
		log.Printf("a container gets %s", given)
		answer.ContainerResponses = append(answer.ContainerResponses, &kubelet.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": given},
		})
	}
	return answer, nil
}
